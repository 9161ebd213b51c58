"""Generate training data for EAGLE-3 drafters: exact token ids of the target, and a ledger of every cent."""

__version__ = "0.1.0"
