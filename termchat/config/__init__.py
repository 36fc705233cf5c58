"""Settings: one source per place, and where each value comes from; personas, and what is kept for one model."""
