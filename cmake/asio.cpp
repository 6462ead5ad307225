// Asio's own functions, compiled once instead of in every source that uses it (BOOST_ASIO_SEPARATE_COMPILATION).

#include <boost/asio/impl/src.hpp>
