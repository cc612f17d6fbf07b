"""What commands do between parsing and printing: each stage takes its inputs from a run and adds its artifact.

`optimize` calls these one after the other. A stage that needs the model takes a `Session`.
"""
