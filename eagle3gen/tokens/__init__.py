"""Text and token ids: encoding, rendering, rebuilding, judging. Pure functions; no network, no database."""
