# Installs into a folder of its own, uses what lies there, and builds a program against the libraries.
# cmake -DBUILD=build folder -DOUT=scratch folder -DCONSUMER=its source
# -DCOMPILER=C++ compiler -DGENERATOR=CMake's generator -DSTATIC=FORESHARD_STATIC_DEPENDENCIES
# -P install_test.cmake
file(REMOVE_RECURSE ${OUT})
set(prefix ${OUT}/prefix)
set(program ${prefix}/bin/foreshard)

macro(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nended with ${status}\n${output}")
  endif()
endmacro()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
foreach(file bin/foreshard share/man/man1/foreshard.1 share/man/man1/foreshard-plan.1
             share/bash-completion/completions/foreshard share/zsh/site-functions/_foreshard
             share/fish/vendor_completions.d/foreshard.fish share/doc/foreshard/LICENSE
             share/doc/foreshard/NOTICE share/doc/foreshard/foreshard.spdx.json
             include/foreshard/core/base/error.hpp)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()

if(NOT STATIC STREQUAL "OFF")
  set(PROGRAM ${program})
  include(${CMAKE_CURRENT_LIST_DIR}/linkage_test.cmake)
endif()

# Profiles are compiled in: the program works where there is no repository.
execute_process(COMMAND ${program} plan mlp --gpus 4 --json WORKING_DIRECTORY ${prefix} OUTPUT_VARIABLE plan
                COMMAND_ERROR_IS_FATAL ANY)
string(JSON machine GET "${plan}" machine)
if(NOT machine STREQUAL "h200")
  message(FATAL_ERROR "the installed program planned for '${machine}'")
endif()

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${CONSUMER} -B ${OUT}/consumer -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${OUT}/consumer)

# It predicts what the program does.
run(${OUT}/consumer/consumer)
set(consumed "${output}")
execute_process(COMMAND ${program} plan llama3-8b --gpus 8 --param-dtype bfloat16 --json --quiet OUTPUT_VARIABLE plan
                COMMAND_ERROR_IS_FATAL ANY)
foreach(key step_ms peak_reserved_bytes)
  string(JSON wanted GET "${plan}" ${key})
  string(REGEX MATCH "${key} ([0-9.]+)" given "${consumed}")
  set(given "${CMAKE_MATCH_1}")
  string(SUBSTRING "${given}" 0 6 given)
  string(FIND "${wanted}" "${given}" at)
  if(given STREQUAL "" OR NOT at EQUAL 0)
    message(FATAL_ERROR "the consumer's ${key} begins '${given}', that of foreshard plan is '${wanted}'\n${consumed}")
  endif()
endforeach()
