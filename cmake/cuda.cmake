# FORESHARD_CUDA: whether the GPU back end is built. FORESHARD_GPU: AUTO builds it where a CUDA compiler and the
# libraries below are found, ON insists, OFF leaves it out. Only foreshard-gpu and the GPU tests link against them; the
# CUDA runtime is linked statically, the rest is found at run time by the names in the message.
#
# Targets: foreshard::cuda_driver (libcuda.so.1), foreshard::nccl (libnccl.so.2), foreshard::cublas_lt
# (libcublasLt.so.13), foreshard::cudnn (libcudnn.so.9), foreshard::cupti (libcupti.so.13), CUDA::cudart_static.
set(FORESHARD_GPU AUTO CACHE STRING "Build the CUDA back end: AUTO, ON or OFF")
set_property(CACHE FORESHARD_GPU PROPERTY STRINGS AUTO ON OFF)
set(FORESHARD_CUDA OFF)

# foreshard_cuda_missing(WHAT): AUTO goes on without the GPU back end and says why; ON stops.
macro(foreshard_cuda_missing what)
  if(FORESHARD_GPU STREQUAL "ON")
    message(FATAL_ERROR "FORESHARD_GPU=ON, but ${what} was not found")
  endif()
  message(STATUS "The GPU back end is left out: ${what} was not found")
  set(FORESHARD_CUDA OFF)
endmacro()

# foreshard_cuda_library(TARGET LIBRARY HEADER): an imported shared library of the toolkit, or beside it.
macro(foreshard_cuda_library target library header)
  find_library(FORESHARD_LIB_${target} ${library}
               HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_ROOT}/extras/CUPTI/lib64 PATH_SUFFIXES stubs)
  find_path(FORESHARD_INCLUDE_${target} ${header}
            HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_ROOT}/extras/CUPTI/include)
  if(FORESHARD_LIB_${target} AND FORESHARD_INCLUDE_${target})
    add_library(foreshard_${target} INTERFACE)
    add_library(foreshard::${target} ALIAS foreshard_${target})
    target_link_libraries(foreshard_${target} INTERFACE ${FORESHARD_LIB_${target}})
    target_include_directories(foreshard_${target} SYSTEM INTERFACE ${FORESHARD_INCLUDE_${target}})
  else()
    foreshard_cuda_missing("lib${library} with ${header}")
  endif()
endmacro()

if(NOT FORESHARD_GPU STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(FORESHARD_NVCC nvcc PATHS /usr/local/cuda/bin)
    if(FORESHARD_NVCC)
      set(CMAKE_CUDA_COMPILER ${FORESHARD_NVCC})
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90-real)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 does not know nvcc's flag for C++20.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    find_package(CUDAToolkit REQUIRED)
    set(FORESHARD_CUDA ON)
    foreshard_cuda_library(cuda_driver cuda cuda.h)
    foreshard_cuda_library(nccl nccl nccl.h)
    foreshard_cuda_library(cublas_lt cublasLt cublasLt.h)
    foreshard_cuda_library(cudnn cudnn cudnn.h)
    foreshard_cuda_library(cupti cupti cupti.h)
  else()
    foreshard_cuda_missing("a CUDA compiler (nvcc)")
  endif()
endif()
if(FORESHARD_CUDA)
  message(STATUS "The GPU back end is built with ${CMAKE_CUDA_COMPILER} for ${CMAKE_CUDA_ARCHITECTURES}")
endif()
