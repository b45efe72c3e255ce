"""What people look at: texts, plots, the report page. They see plans, releases and ledgers, and compute nothing."""
