"""Known anomalies that an application can hit, and the cheapest change that avoids them. Pure."""
