/* C interface of libforeshard_collectives.so: foreshard's all-gather and reduce-scatter for a program that brings its
 * own ranks, streams and tensors. The Python module foreshard.collectives is its user.
 *
 * Every function that returns int returns 0, or the number of a failure (docs/exit_codes.md) whose text
 * foreshard_collectives_error() has. Streams are cudaStream_t as void*; the legacy default stream is refused. Sizes are
 * bytes. dtypes: 0 float32, 1 bfloat16, 2 float16. Thread safety: any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function or its meaning changes. */
#define FORESHARD_COLLECTIVES_ABI 2
#define FORESHARD_COLLECTIVES_ADDRESS 64

typedef struct foreshard_collectives_group foreshard_collectives_group;

int foreshard_collectives_abi(void);
/* Of the last call that failed on this thread; valid until the next one does. The number is 0 and the text empty where
 * none has since the last select(). */
const char* foreshard_collectives_error(void);
int foreshard_collectives_error_number(void);

/* This rank's part of a group, listening: `address` gets FORESHARD_COLLECTIVES_ADDRESS bytes, which all ranks need.
 * `timeout_ms`: how long a rank may be late; in connect() half of it, 30 s at most. */
int foreshard_collectives_open(uint32_t rank, uint32_t ranks, int device, uint64_t timeout_ms, char* address,
                               foreshard_collectives_group** group);
/* Collective: with the addresses of all ranks, by rank. After a failure on any rank, close on all. */
int foreshard_collectives_connect(foreshard_collectives_group* group, const char* addresses);
/* Gives memory and everything else back; no stream may use it any more. */
void foreshard_collectives_close(foreshard_collectives_group* group);

/* For torch.cuda.memory.CUDAPluggableAllocator: memory of the group that this thread has selected; null: none (error()
 * says why; any number but that of out of memory is final). Collective: the same sizes in the same order on all ranks.
 * free() keeps it until the group closes. select() may be given null: then malloc() fails. */
void foreshard_collectives_select(foreshard_collectives_group* group);
void* foreshard_collectives_malloc(size_t bytes, int device, void* stream);
void foreshard_collectives_free(void* memory, size_t bytes, int device, void* stream);
/* 1: all of it is memory of the group. */
int foreshard_collectives_contains(foreshard_collectives_group* group, const void* memory, size_t bytes);

/* `output`, of the group's memory, gets `bytes` of each rank by rank. In place where input is its part of output. */
int foreshard_collectives_all_gather(foreshard_collectives_group* group, const void* input, void* output, size_t bytes,
                                     void* stream);
/* output[i] = scale * (input of rank 0 + input of rank 1 + ...)[rank * elements + i], summed in float32. */
int foreshard_collectives_reduce_scatter(foreshard_collectives_group* group, const void* input, void* output,
                                         size_t elements, int input_dtype, int output_dtype, float scale, void* stream);

/* Blocks for `milliseconds`, or until the group is lost (a failure). Streams go on waiting then, and the process is
 * ended (_exit) with the failure's number `grace_ms` later, whatever its threads do: so long the caller has for its
 * last words before it ends the process itself. One thread calls it again and again. */
int foreshard_collectives_watch(foreshard_collectives_group* group, uint64_t milliseconds, uint64_t grace_ms);

#ifdef __cplusplus
}
#endif
