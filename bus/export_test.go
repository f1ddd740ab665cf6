package bus

import "bufio"

// DecodeMessage and ReadLine are the decoders of the stream, for fuzzing.
func DecodeMessage(line []byte) (Message, error) { return decodeMessage(line) }

// ReadLine: see DecodeMessage.
func ReadLine(r *bufio.Reader, limit int) ([]byte, error) { return readLine(r, limit) }
