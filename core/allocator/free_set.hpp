// The ordered sets of free blocks, by (size, counter, address), with nodes from a recycling store.
//
// Internal to core/allocator. PyTorch's `blocks` set is ordered by (stream, size, address), from 2.13 on by (stream,
// size, segment's counter, address): AllocatorRules::ties_by_creation. Here each stream of a pool has a set of its
// own, and the streams are kept in order (block_pool.hpp), which is the same order. The `unmapped` set is ordered by
// (stream, address): size and counter 0 in every key (caching allocator 1.3).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard::allocator_detail {

struct Block;

struct FreeKey {
  Bytes size = 0;
  std::uint64_t counter = 0;  ///< Block::counter
  Address address = 0;
  Block* block = nullptr;
};

struct FreeKeyOrder {
  bool operator()(const FreeKey& a, const FreeKey& b) const {
    if (a.size != b.size) return a.size < b.size;
    return a.counter != b.counter ? a.counter < b.counter : a.address < b.address;
  }
};

/// Hands out nodes of one size and takes them back without going to the heap.
class NodeStore {
 public:
  void* take(std::size_t bytes) {
    if (bytes_ == 0) bytes_ = bytes;
    if (bytes != bytes_) return ::operator new(bytes);
    if (!free_) add_chunk();
    Node* node = free_;
    free_ = node->next;
    return node;
  }
  void give(void* memory, std::size_t bytes) {
    if (bytes != bytes_) return ::operator delete(memory);
    free_ = new (memory) Node{free_};
  }

 private:
  struct Node {
    Node* next;
  };
  static constexpr std::size_t kChunk = 256;

  void add_chunk() {
    chunks_.push_back(std::make_unique<std::byte[]>(bytes_ * kChunk));
    for (std::size_t i = kChunk; i-- > 0;) free_ = new (chunks_.back().get() + i * bytes_) Node{free_};
  }

  std::size_t bytes_ = 0;
  Node* free_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

/// The standard allocator interface over a NodeStore, which must outlive every container that uses it.
template <class T>
struct NodeAllocator {
  using value_type = T;
  NodeStore* store;

  explicit NodeAllocator(NodeStore& node_store) : store(&node_store) {}
  template <class U>
  NodeAllocator(const NodeAllocator<U>& other) : store(other.store) {}  // NOLINT: conversion is the interface

  T* allocate(std::size_t n) { return static_cast<T*>(store->take(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t n) { store->give(memory, n * sizeof(T)); }
  template <class U>
  bool operator==(const NodeAllocator<U>& other) const {
    return store == other.store;
  }
};

/// No two keys are equal; a multiset does not look for an equal one at each insertion.
using FreeSet = std::multiset<FreeKey, FreeKeyOrder, NodeAllocator<FreeKey>>;

}  // namespace foreshard::allocator_detail
