"""dcpinspect on Apache Spark: the engine called from Spark's tasks. Nothing else of the package knows Spark, and this imports it late."""
