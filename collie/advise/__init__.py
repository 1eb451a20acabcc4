"""Known anomalies that an application can hit, and the changes that avoid them. Pure."""
