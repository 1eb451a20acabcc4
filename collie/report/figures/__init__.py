"""Pictures as geometry: charts, strips, maps of severity."""
