"""Pure: which known anomalies an application can hit, and the cheapest change that keeps it clear of them."""
