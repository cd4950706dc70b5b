"""From any PyTorch module to its joint forward and backward graph, and that graph executed under a schedule."""
