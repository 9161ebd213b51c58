"""Each file is one revision; later ones never change an earlier one."""
