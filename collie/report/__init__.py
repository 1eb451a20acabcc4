"""What a person or a CI reads at the end: JSON, text, and one HTML file that needs nothing else."""
