# foreshard_library([SOURCES files...] [DEPENDS folders...] [LIBRARIES targets...] [SEPARATE ALL|files...]): the static
# library of this folder (header-only without SOURCES). Its name is the folder's: core/step is foreshard_core_step,
# alias foreshard::core_step. DEPENDS names the folders that its sources include, exactly; tests/tidy holds it. Includes
# start at the repository's root ("core/device/device.hpp"). With FORESHARD_UNITY several sources are compiled as one, so
# what they name in anonymous namespaces differs within a folder; SEPARATE lists sources that are compiled alone.
function(foreshard_library)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES;SEPARATE" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" name ${folder})
  set(target foreshard_${name})
  list(TRANSFORM ARG_DEPENDS REPLACE "/" "_")
  list(TRANSFORM ARG_DEPENDS PREPEND "foreshard::")
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    set(access PUBLIC)
    if(ARG_SEPARATE STREQUAL "ALL")
      set(ARG_SEPARATE ${ARG_SOURCES})
    endif()
    foreshard_unity(${target} 24)
    if(ARG_SEPARATE)
      set_source_files_properties(${ARG_SEPARATE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    foreshard_warnings(${target})
    if(folder MATCHES "^(accuracy|cli|gpu/bootstrap|gpu/launch|sim/calibrate|traces/folder|traces/model_files|viz)(/|$)")
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${FORESHARD_FRONT_OPTIONS}>)
    endif()
    if("Boost::headers" IN_LIST ARG_LIBRARIES)
      target_link_libraries(${target} PUBLIC foreshard::asio)
      foreshard_precompiled_headers(${target} foreshard_precompiled_asio)
    elseif("nlohmann_json::nlohmann_json" IN_LIST ARG_LIBRARIES)
      foreshard_precompiled_headers(${target} foreshard_precompiled_json)
    else()
      foreshard_precompiled_headers(${target} foreshard_precompiled)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(access INTERFACE)
  endif()
  add_library(foreshard::${name} ALIAS ${target})
  target_include_directories(${target} ${access} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:include/foreshard>)
  target_link_libraries(${target} ${access} ${ARG_DEPENDS} ${ARG_LIBRARIES})
  if(folder MATCHES "^(core|sim|traces|viz)/")  # those that cmake/install.cmake installs
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    set_property(GLOBAL APPEND PROPERTY FORESHARD_LIBRARIES ${target})
  endif()
endfunction()

# foreshard_unity(TARGET COUNT): with FORESHARD_UNITY up to COUNT sources of TARGET are compiled as one. Each batch parses
# the same headers and compiles the same templates anew, so a library's are large; a test program's are smaller, as they
# are compiled last, where a long one would leave cores idle.
function(foreshard_unity target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FORESHARD_UNITY} UNITY_BUILD_BATCH_SIZE ${count})
endfunction()

# What a library links decides which set of precompiled headers it takes: nlohmann's and Asio's headers cost more than
# all others, and a set that has them costs every source that loads it 0.4 s.

# foreshard_precompiled_headers(TARGET FROM): compiles TARGET with the precompiled headers of FROM. Sources include what
# they use all the same: the preset `fuzz` builds without.
function(foreshard_precompiled_headers target from)
  if(FORESHARD_PRECOMPILED_HEADERS)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:fmt::fmt>)  # the same definitions as FROM
    target_precompile_headers(${target} REUSE_FROM ${from})
  endif()
endfunction()

# foreshard_precompile(NAME headers... [LIBRARIES targets...]): a library of nothing but precompiled headers.
function(foreshard_precompile name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PUBLIC fmt::fmt tl::expected ${ARG_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  foreshard_warnings(${name})  # the precompiled headers are of the same macros
endfunction()

# GCC 12 takes std::string's inlined operators for out-of-bounds writes (its bugs 105329 and 105651), and what lies in an
# empty std::optional for a value that is used, where the library's assertions are compiled in. Clang wants braces around
# each aggregate inside another one.
function(foreshard_warnings target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                              $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-maybe-uninitialized>
                              $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-braces>
                              $<$<BOOL:${FORESHARD_WERROR}>:-Werror>>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow
                               $<$<BOOL:${FORESHARD_WERROR}>:-Werror=all-warnings>>)
endfunction()

# foreshard_test(NAME sources... [DEPENDS targets...] LABELS labels... [AT_ONCE cases]): one Catch2 test program, and
# the test that runs it in the repository's root. NAME follows the folder under tests: core/step gives core_step, or
# core_step_MORE for a further program. LABELS has one of `fast` (the program takes less than 2 s) and `slow`, and
# with it `reference` where it needs FORESHARD_TRUTH, `gpu` where it needs a GPU. AT_ONCE: so many of its cases run at
# once, each in a process of its own, for those that mostly wait. With FORESHARD_UNITY the sources are compiled as
# one.
function(foreshard_test name)
  cmake_parse_arguments(ARG "" "AT_ONCE" "DEPENDS;LABELS" ${ARGN})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" of_folder ${folder})
  if(NOT name STREQUAL of_folder AND NOT name MATCHES "^${of_folder}_")
    message(FATAL_ERROR "test ${name}: a test of tests/${folder} is called ${of_folder} or ${of_folder}_MORE")
  endif()
  set(speed ${ARG_LABELS})
  list(FILTER speed INCLUDE REGEX "^(fast|slow)$")
  list(LENGTH speed speeds)
  if(NOT speeds EQUAL 1)
    message(FATAL_ERROR "test ${name}: LABELS has one of fast and slow")
  endif()
  add_executable(test_${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(test_${name} PRIVATE ${ARG_DEPENDS} foreshard_test_main)
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(test_${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${FORESHARD_TEST_OPTIONS}>")
  foreshard_unity(test_${name} 12)
  foreshard_warnings(test_${name})
  foreshard_precompiled_headers(test_${name} foreshard_test_precompiled)
  set(command test_${name})
  if(ARG_AT_ONCE)
    set(command ${PROJECT_SOURCE_DIR}/tests/at_once.sh $<TARGET_FILE:test_${name}> ${ARG_AT_ONCE})
  endif()
  add_test(NAME ${name} COMMAND ${command} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77)  # kSkippedStatus, tests/catch.hpp
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
