"""The truth: datasets, prompts, attempts, samples in Postgres. The only code that speaks SQL.

Functions here take a connection and never commit; the flows own the transactions. The exception is the writer,
whose whole purpose is to commit many prompts at once.
"""
