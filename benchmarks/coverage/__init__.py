"""How much of a training the default settings record, and what they cost it: programs, a meter within them, tables."""
