"""The verbs of the pipeline: enqueue, generate, dispatch, halt, audit, export. They own the transactions."""
