// Memory that a library of C asks for and does not get.
#pragma once

#include <new>

namespace foreshard {

/// What operator new does where there is no memory: the process's new handler, which may end it, else std::bad_alloc.
[[noreturn]] inline void out_of_memory() {
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}

}  // namespace foreshard
