"""All messages of a reading at hand: any row's columns, its bytes, its annotation, while the reading goes on."""
