"""How much of a training the default settings record, and at what cost: programs, a meter in each, tables."""
