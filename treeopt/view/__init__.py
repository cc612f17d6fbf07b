"""Looking at results: text drawings and tables, plots and the report."""
