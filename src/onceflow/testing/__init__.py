"""What users and onceflow itself test with: the simulation of `core` under every interleaving and failure."""
