"""One module a runtime. Each defines FORMAT, and is found by being here."""
