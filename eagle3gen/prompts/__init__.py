"""Reading prompts from files: shapes, identity, routing."""
