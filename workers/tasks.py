"""The Celery tasks. Each is a name for a verb of `eagle3gen.flow`."""

from eagle3gen.flow.generate import generate as answer
from workers.app import app
from workers.runtime import bench


@app.task(name="eagle3gen.generate", ignore_result=True)  # type: ignore[untyped-decorator]  # Celery ships no types
async def generate(prompt_id: int) -> None:
    """Answer one prompt of the ledger, if it is due."""
    await answer(prompt_id, bench())
