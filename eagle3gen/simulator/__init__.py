"""An OpenRouter on loopback that knows which ids it emitted and keeps its own bill.

It imports nothing of the rest of the project: what it judges cannot share a bug with it.
"""
