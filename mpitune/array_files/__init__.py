"""Arrays in memory and on disk.

atomic        `atomic_replace`, `open_atomic`, `write_text`: files that are written completely or not at all
arrays        `write_arrays`, `open_arrays`: memory-mapped .npz files of NumPy, with a manifest and a digest
cache         `cached`: array files that are made if they are missing or stale, and checked once
disk_array    `DiskArray`: an array that grows on disk; `Scratch`: arrays of one computation, large ones on disk
grow          `grow_to`: arrays that grow with the number of features
csr           `row_ends`, `select_rows`, `row_scores`, ...: rows of different lengths in one array
row_table     `DistinctRows`: a hash table of rows, such as words as bytes
number_table  `DistinctNumbers`: a hash table of 64-bit numbers
"""
