# FORESHARD_HARDENING: what the compiler and the linker check or forbid in optimised builds, since foreshard reads files
# of strangers: stack protector, checked C functions (_FORTIFY_SOURCE), control-flow marks (CET, x86), read-only
# relocations that are resolved at the start (RELRO, BIND_NOW). The sanitizers' builds have checks of their own.
#
# The standard library's own assertions (an index beyond a vector, an empty optional) are in every build: a bug ends the
# program there instead of writing beside it. tests/install reads all of these from the built program.
option(FORESHARD_HARDENING "Stack protector, _FORTIFY_SOURCE, CET, RELRO with BIND_NOW" ON)

add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
if(FORESHARD_HARDENING AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  include(CheckCXXCompilerFlag)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>
                      "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  check_cxx_compiler_flag(-fcf-protection=full FORESHARD_HAS_CET)
  if(FORESHARD_HAS_CET)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fcf-protection=full>)
  endif()
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()
