"""What a run cost and what it brought: numbers from the ledger, as JSON, CSV and one HTML page."""
