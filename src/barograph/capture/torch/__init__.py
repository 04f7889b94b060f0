"""How a PyTorch training is recorded, held and put back."""
