"""Generate training data for EAGLE-3 drafters: target answers with exact token ids and a ledger of every cent."""

__version__ = "0.1.0"
