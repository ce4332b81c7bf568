/* CRC-32 (IEEE 802.3, as zlib has it) of bytes in memory, under a name that zlib does not have. */

#include <stddef.h>
#include <stdint.h>

/* Must have been called once before checksum is. */
void checksum_begin(void);

uint32_t checksum(const uint8_t *bytes, size_t size);
