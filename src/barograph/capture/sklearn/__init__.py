"""How estimators of scikit-learn that learn step by step are recorded."""
