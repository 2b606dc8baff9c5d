"""Other people's pipelines, written as their users write them."""
