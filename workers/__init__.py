"""The Celery side: one task per prompt, an asyncio pool, and the maintenance every worker does."""
