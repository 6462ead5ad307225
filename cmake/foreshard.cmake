# foreshard_library(NAME sources... [DEPENDS targets...]): one static library per folder, with the alias
# foreshard::NAME and includes that start at the repository's root ("core/device/device.hpp").
function(foreshard_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  set(target foreshard_${name})
  add_library(${target} STATIC ${ARG_UNPARSED_ARGUMENTS})
  add_library(foreshard::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS})
  foreshard_warnings(${target})
endfunction()

function(foreshard_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                              $<$<BOOL:${FORESHARD_WERROR}>:-Werror>>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow
                               $<$<BOOL:${FORESHARD_WERROR}>:-Werror=all-warnings>>)
endfunction()

# foreshard_test(NAME sources... [DEPENDS targets...] [LABELS labels...]): one Catch2 test program.
function(foreshard_test name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LABELS" ${ARGN})
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(test_${name} PRIVATE ${ARG_DEPENDS} foreshard_test_main)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  foreshard_warnings(test_${name})
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(ARG_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  endif()
endfunction()

# foreshard_fuzzer(NAME sources... [DEPENDS targets...]): one libFuzzer program, fuzz_NAME, part of the target
# `fuzzers`. The preset `fuzz` compiles everything with coverage and sanitizers; seeds lie in tests/fuzz/corpus/NAME.
function(foreshard_fuzzer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_executable(fuzz_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(fuzz_${name} PRIVATE ${ARG_DEPENDS})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  foreshard_warnings(fuzz_${name})
  add_dependencies(fuzzers fuzz_${name})
endfunction()

# foreshard_benchmark(NAME sources... [DEPENDS targets...]): one Google Benchmark program, bench_NAME, part of the
# target `benchmarks`.
function(foreshard_benchmark name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_executable(bench_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(bench_${name} PRIVATE ${ARG_DEPENDS} benchmark::benchmark benchmark::benchmark_main)
  foreshard_warnings(bench_${name})
  add_dependencies(benchmarks bench_${name})
endfunction()
