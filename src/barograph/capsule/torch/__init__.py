"""How a held step of PyTorch is made again."""
