"""Videos in the commands: choosing clips, comparing pipelines, and making test videos."""
