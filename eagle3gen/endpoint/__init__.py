"""Talking to the endpoint: one client, and replies read into a completion or a refusal."""
