"""`python -m eagle3gen`."""

from eagle3gen.cli import main

main()
