"""One question about one trace each; `contents` lists them."""
