"""Terminal tables of runs and sweeps, progress on a terminal, and the HTML report."""
