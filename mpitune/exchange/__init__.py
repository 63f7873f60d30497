"""Communication between the ranks of a run, and the reduction of all shards' weight vectors to one.

- `comm`: `Comm`, the ranks of a run, serial (`SerialComm`) or over MPI (`MpiComm`); the only module to import mpi4py.
- `launcher`: the processes that were started together.
- `links`: what the network to other machines is like.
- `liveness`: whether the other ranks live, and whether one was asked to stop.
- `chunked`: collectives over arrays of any length.
- `work_queue`: dynamic scheduling: free ranks get the next items of work from rank 0.
- `sparse_rows`: `SparseVectors`, the shards' weight vectors as sparse rows.
- `mixing`: means of weight vectors over shards and over epochs (IterMixSGD).
- `selection`: feature selection by column norms (IterSelSGD).
- `reduction`: `reduce`, the exchange algorithm that ends an epoch: `EXCHANGES`.
"""
