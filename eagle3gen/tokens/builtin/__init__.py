"""Tokenizers of our own making, for the simulator, the demo and the tests."""
