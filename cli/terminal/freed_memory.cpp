#include "cli/terminal/freed_memory.hpp"

#include <cstdint>
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace foreshard::cli {
#ifdef __GLIBC__
namespace {

constexpr int kGrowth = 16 << 20;

/// Of the heap's next growth those pages that are whole 2 MiB, where the system gives such to who asks.
void ask_for_huge_pages() {
  constexpr std::uintptr_t kHuge = 2 << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  void* volatile grown = std::malloc(kGrowth);  // and as much behind it; a compiler leaves out what nobody looks at
  std::free(grown);
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  const std::uintptr_t first = (begin + kHuge - 1) / kHuge * kHuge;
  if (first + kHuge <= end) ::madvise(reinterpret_cast<void*>(first), (end - first) / kHuge * kHuge, MADV_HUGEPAGE);
}

}  // namespace
#endif

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, kGrowth);
  ask_for_huge_pages();
#endif
}

}  // namespace foreshard::cli
