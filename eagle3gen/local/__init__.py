"""One machine: Postgres, Valkey and workers as children that never outlive the run."""
