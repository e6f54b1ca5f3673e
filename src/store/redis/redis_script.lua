-- redis_script: the Redis store's logic, which runs inside the server. One call does one batch
-- of operations, all of it or nothing.
--
-- KEYS. All keys of a shard begin with the same text P, which ends with a hash tag
-- ("stile{0}"), so they are in one slot. "id" is a ticket number, 8 bytes big-endian. Numbers in
-- values are big-endian too.
--
--   P m         a hash: "layout", the version of this list of keys, and "last", the last ticket
--               number given (decimal). Layout 2 had a string here
--   P !         never exists. Every call names it with P m: while the slot moves to another
--               node, no call runs instead of one that sees half of the keys
--   P c KEY     a claim, once or content: ticket 8, check 4, seen 4, expiry 8 (ms)
--   P n KEY     a claim, newest (of an entity): the same, then order 8
--   P t id      an open ticket: a record of 46 bytes (RECORD below); the first leg of an event
--               has the event too: flags 2, length of the source 1, length of the metadata 2,
--               source, metadata, payload. The first leg's key stays until all legs are closed
--   P N id      the notes on a ticket, a list, newest first
--   P o         all open tickets, by number
--   P d SINK    tickets that are due, by number
--   P l         leased tickets, by the end of the lease
--   P h         held tickets, by number
--   P C         tickets of callers (no lane delivers them), a set
--   P p, P x    parked and dead tickets, by the time since when
--   P D id      an event of which a leg was dropped, for an hour
--   P k KEY     a cell: expiry 8 (0: never), length of the name 4, name, value
--   P r NODE    a gateway's last batch that changed something: its number, its results, and the
--               tickets that its takes leased. A batch that is sent again, because its answer
--               was lost, is answered from here and not done twice. What a batch leased that the
--               gateway gave up, the gateway's next batch gives back
--   P q KEY     a reservation: an event whose home is another shard is about to take this
--               claim. The event's token 8
--   P u id      an event whose claims in other shards may not be taken yet
--
-- KEYS[]: P m, P !. ARGV[]: the batch (time, 0: the server's; batch number; number of the last
-- batch whose answer was received; shard; step between ticket numbers; flags), the gateway,
-- then the operations. An operation is a head, whose first byte is the opcode, and for some
-- opcodes more arguments. The answer: one element for each operation (a number below 0 is an
-- error), then one byte for the room (0: there is room, 1: memory is full, 2: nobody looked)
-- and, if asked for, the counts.
--
-- OPCODES. A admit, M many admits that only decide, P reserve, Q confirm, V forget the mark of
-- P u, S settle, N note, R release, E renew, B give a lease back, T take by sink, U take one
-- ticket, L lookup, W outcome so far, G read, F scan, H held events, X expire dead letters,
-- C cell, K names of cells.

local P = string.sub(KEYS[1], 1, -2)
local spread = unpack
local call, pack, unpack = redis.call, struct.pack, struct.unpack
local sub, byte, floor, ceil = string.sub, string.byte, math.floor, math.ceil
local format, concat = string.format, table.concat
local now, batch, heard, shard, step, flags = unpack('>I8I8I8I4I4B', ARGV[1])
local fake_clock, writes, counts = flags % 2 == 1, flags % 4 >= 2, flags >= 4
local LAYOUT = '3'
local FULL, FENCED, NOENT, RETRY = -5003, -5008, -2, -1000
local NEW, DUPLICATE, STALE, CONFLICT, BUSY = 1, 2, 3, 4, 5
local DUE, LEASED, HELD, PARKED, DEAD, CLOSED = 1, 2, 3, 4, 5, 6
local STARTED, RELEASED = 1, 6
local CALLER = 1 -- the sink of legs that no lane delivers
local RECORD, RECORD_LEN = '>I8I8c8I8I4I2I2I2BBBB', 46
local EPOCH, ORDERS = 1704067200000, 16384
local FOREVER = 9007199254740991
local EXPIRY_MAX = 2 ^ 43 - 1 -- of a cell

if now == 0 then
	if redis.replicate_commands then redis.replicate_commands() end
	local t = call('TIME')
	now = t[1] * 1000 + floor(t[2] / 1000)
end

local at_start = redis.pcall('HMGET', KEYS[1], 'layout', 'last')
if at_start.err or (at_start[1] and at_start[1] ~= LAYOUT) then
	return redis.error_reply('LAYOUT the keys have another layout than ' .. LAYOUT)
end
local last = tonumber(at_start[2] or '0')

-- Of each take in this batch the tickets that it leased: id and attempt of each.
local takes = {}
local saved, saved_at, saved_takes, unheard
local record = call('GET', P .. 'r' .. ARGV[2])
if record then
	local done = unpack('>I8', record)
	if done > batch then return redis.error_reply('STALE batch') end
	if done == batch then
		saved, saved_takes = spread(cmsgpack.unpack(sub(record, 9)))
		saved_at = 0
	elseif done > heard then
		unheard = sub(record, 9)
	end
end
-- No room: operations that only remove are done all the same. Any other reason why the server
-- does not write is the answer (before 7.0 it follows the place in the script).
local full = false
if writes then
	local r = redis.pcall('SETRANGE', KEYS[2], 0, '')
	if type(r) == 'table' and r.err then
		local why = string.match(r.err, '^@.-: %-(.*)$') or r.err
		if sub(why, 1, 3) ~= 'OOM' then return redis.error_reply(why) end
		full = true
	end
end
if full or not writes then unheard = nil end -- it could not be recorded as given back

-- After a removal the server allows writes for the rest of a call, with or without room. What
-- delivery needs uses that, since delivery is what makes room: leases of takes, notes, outcomes.
-- Each keeps a few bytes at most, and no event gets in this way.
local allowed = writes and not full
local function allow()
	if allowed then return end
	allowed = true
	call('DEL', KEYS[2])
end

local function time_of(ticket) return floor(ticket / ORDERS) + EPOCH end
local function id_of(ticket) return pack('>I8', ticket) end

local function ticket_next(legs)
	local first = (now > EPOCH and now - EPOCH or 0) * ORDERS + shard * 16
	local ticket
	if step == 1 then
		ticket = first > last and first or last + 1
		last = ticket + legs - 1
	else
		ticket = first > last and first or last + step
		last = ticket
	end
	return ticket
end

local function window_kept(seconds)
	local _, bits = math.frexp(seconds)
	if bits <= 9 then return seconds end
	local unit = 2 ^ (bits - 9)
	return ceil(seconds / unit) * unit
end

-- Claims and reservations that were read or written so far; false: there is none. All access
-- to them goes through this cache.
local known = {}

local function known_get(key)
	local text = known[key]
	if text == nil then
		text = call('GET', key)
		known[key] = text
	end
	return text
end

-- Sets a key that expires; the caller knows that `expiry` is not 0. With a fake clock nothing
-- expires by the server's.
local function set_until(key, value, expiry)
	if fake_clock then
		call('SET', key, value)
	else
		call('SET', key, value, 'PX', expiry > now and expiry - now or 1)
	end
end

-- The common case: an event with one claim, which nobody had taken.
local ends = {}

local function claim_put_first(key, ticket, window, check)
	local from = time_of(ticket)
	local of_window = ends[window]
	if not of_window or of_window.from ~= from then
		local expiry = from + window_kept(unpack('>I4', window)) * 1000
		if expiry <= now then expiry = now + 1 end
		of_window = { from = from, bytes = pack('>I4I8', 0, expiry),
			ttl = format('%.0f', expiry - now) }
		ends[window] = of_window
	end
	local value = pack('>I8', ticket) .. check .. of_window.bytes
	known[key] = value
	if fake_clock then call('SET', key, value) else call('SET', key, value, 'PX', of_window.ttl) end
end

-- The functions for everything else. To make them takes as long as about ten events, so a batch
-- that needs none of them does not: see load_rest().
local load_rest, rest

local function rest_of_script()
	rest = rest or load_rest()
	return rest
end

local function keys_read(from, count)
	local texts = {}
	for i = 0, count - 1, 1000 do
		local part = call('MGET', spread(ARGV, from + i, from + (i + 999 < count and i + 999 or count - 1)))
		for n = 1, #part do texts[i + n] = part[n] end
	end
	return texts
end

-- M: a run of admits that only decide: how many, how many keys they have, their heads. The
-- arguments behind it are the keys of their claims, in a cluster each followed by the key of
-- its reservation. The answer: the time, the first ticket number, a byte of bits for each (1: it
-- used a ticket number, 2: it has an answer of its own), then the answers of those that have one.
local function admit_many(head, i)
	local count, key_count = unpack('>I2I2', head, 2)
	local keys_at = i + 1
	if full then return FULL end
	local texts = keys_read(keys_at, key_count)
	local at, k, keys_of_claim = 6, 0, step > 1 and 2 or 1
	local out, bits, first = { '' }, {}, nil
	for n = 1, count do
		local claims, legs, _, _, _, _, kind = byte(head, at + 2, at + 8)
		local key, before = ARGV[keys_at + k], last
		if claims == 1 and kind ~= 2 and not texts[k + 1] and not known[key]
			and not (step > 1 and texts[k + 2]) then
			claim_put_first(key, ticket_next(1), sub(head, at + 10, at + 13), sub(head, at + 14, at + 17))
			bits[n] = '\1'
		else
			for c = 0, claims * keys_of_claim - 1 do
				key = ARGV[keys_at + k + c]
				if known[key] == nil then known[key] = texts[k + 1 + c] end
			end
			out[#out + 1] = rest_of_script().admit(rest_of_script().admit_new(head, at), 0)
			bits[n] = last ~= before and '\3' or '\2'
		end
		if not first and last ~= before then first = last end
		at, k = at + 8 + claims * 42 + legs * 12, k + claims * keys_of_claim
	end
	out[1] = pack('>I8I8', now, first or 0) .. concat(bits)
	return out
end

-- Making a closure looks for each local that it uses among all captured locals of the function
-- around it, but finds locals further out at once. So what everything uses is above, and the rest
-- is inside this function (not indented).
function load_rest()

-- Changes of sorted sets, gathered until sync().
local opened, due_at, closed, unleased = {}, {}, {}, {}
local waiting = false

local function call_in_parts(list, command, key)
	for i = 1, #list, 1000 do
		local most = i + 999 < #list and i + 999 or #list
		if key then
			call(command, key, spread(list, i, most))
		else
			call(command, spread(list, i, most))
		end
	end
end

local function sync()
	if not waiting then return end
	waiting = false
	call_in_parts(opened, 'ZADD', P .. 'o')
	for sink, list in pairs(due_at) do call_in_parts(list, 'ZADD', P .. 'd' .. sink) end
	call_in_parts(closed, 'ZREM', P .. 'o')
	call_in_parts(unleased, 'ZREM', P .. 'l')
	opened, due_at, closed, unleased = {}, {}, {}, {}
end

local function add_due(sink, score, id)
	local list = due_at[sink]
	if not list then
		list = {}
		due_at[sink] = list
	end
	list[#list + 1] = score
	list[#list + 1] = id
	waiting = true
end

-- Tickets.

local function leg_of(text)
	local r = {}
	r.event, r.due, r.order, r.ends, r.sink, r.attempt, r.used, r.status, r.state, r.last,
		r.open, r.legs = unpack(RECORD, text)
	return r
end

local function leg_text(r)
	return pack(RECORD, r.event, r.due, r.order, r.ends, r.sink, r.attempt, r.used, r.status,
		r.state, r.last, r.open, r.legs)
end

local function leg_get(id)
	local text = call('GETRANGE', P .. 't' .. id, 0, RECORD_LEN - 1)
	if #text < RECORD_LEN then return nil end
	local r = leg_of(text)
	if r.state == CLOSED then return nil, r end
	return r
end

local function leg_put(id, r) call('SETRANGE', P .. 't' .. id, 0, leg_text(r)) end

local function set_of(r)
	if r.state == DUE then return P .. 'd' .. pack('>I4', r.sink) end
	if r.state == LEASED then return P .. 'l' end
	if r.state == HELD then return P .. 'h' end
	return P .. (r.state == PARKED and 'p' or 'x')
end

local function leg_move(id, ticket, r, state)
	call('ZREM', set_of(r), id)
	r.state = state
	local score = ticket
	if state == LEASED then score = r.ends == 0 and FOREVER or r.ends end
	if state == PARKED or state == DEAD then score = r.due end
	call('ZADD', set_of(r), score, id)
end

local function leg_close(id, r)
	if r.state == LEASED then
		unleased[#unleased + 1] = id
	else
		call('ZREM', set_of(r), id)
	end
	closed[#closed + 1] = id
	waiting = true
	if r.sink == CALLER then call('SREM', P .. 'C', id) end
	if r.legs == 1 then
		call('DEL', P .. 't' .. id, P .. 'N' .. id)
		return
	end
	local first_id = id_of(r.event)
	local first = r
	if first_id ~= id then
		call('DEL', P .. 't' .. id)
		first = leg_of(call('GETRANGE', P .. 't' .. first_id, 0, RECORD_LEN - 1))
	else
		r.state = CLOSED
	end
	call('DEL', P .. 'N' .. id)
	first.open = first.open - 1
	if first.open == 0 then call('DEL', P .. 't' .. first_id) else leg_put(first_id, first) end
end

local function event_legs(event)
	local pending, parked, dead = false, false, false
	local leg, first = leg_get(id_of(event))
	first = first or leg
	if not first or first.event ~= event then return false, false, false end
	for i = 0, first.legs - 1 do
		if i > 0 then leg = leg_get(id_of(event + i)) end
		if leg then
			pending = pending or leg.state <= HELD
			parked = parked or leg.state == PARKED
			dead = dead or leg.state == DEAD
		end
	end
	return pending, parked, dead
end

-- Without room a note replaces the oldest one if there are several.
local function note(id, r, mark, attempt, status, due, text)
	allow()
	local n = call('LPUSH', P .. 'N' .. id,
		pack('>I8I8I4I2I2', now, due, attempt, mark, status) .. text)
	if n > 192 then
		call('LTRIM', P .. 'N' .. id, 0, 127)
	elseif full and n > 8 then
		call('LTRIM', P .. 'N' .. id, 0, n - 2)
	end
	r.last, r.status = mark, status
end

local function drop_note(event)
	allow()
	call('SET', P .. 'D' .. id_of(event), '', 'PX', 3600000)
end

local function next_attempt(attempt) return attempt < 65535 and attempt + 1 or attempt end

-- Leases that have ended: their tickets are due again.
local function end_leases()
	local over = call('ZRANGEBYSCORE', P .. 'l', '-inf', now, 'LIMIT', 0, 1000)
	for i = 1, #over do
		local id = over[i]
		local r = leg_get(id)
		if r then
			leg_move(id, unpack('>I8', id), r, DUE)
			r.ends = 0
			leg_put(id, r)
		else
			call('ZREM', P .. 'l', id)
		end
	end
end

-- Claims.

-- The text of a claim that is taken now; '': it is not.
local function claim_text(key)
	local text = known_get(key)
	if not text then return '' end
	local _, _, _, expiry = unpack('>I8I4I4I8', text)
	return expiry > now and text or ''
end

local function claim_parse(text)
	if text == '' then return nil end
	local t = {}
	t.ticket, t.check, t.seen, t.expiry = unpack('>I8I4I4I8', text)
	t.order = sub(text, 25)
	return t
end

local function claim_get(key) return claim_parse(claim_text(key)) end

local function claim_put(claim, ticket)
	local from = time_of(ticket)
	local seconds = claim.window
	if claim.stored then
		local left = ceil((claim.stored.expiry - from) / 1000)
		if left > seconds then seconds = left end
	end
	local expiry = from + window_kept(seconds) * 1000
	local value = pack('>I8I4I4I8', ticket, claim.check, 0, expiry) .. claim.order
	known[claim.key] = value
	set_until(claim.key, value, expiry)
end

local function claim_seen(key, t)
	t.seen = t.seen < 4294967295 and t.seen + 1 or t.seen
	known[key] = pack('>I8I4I4I8', t.ticket, t.check, t.seen, t.expiry)
	call('SET', key, known[key], 'KEEPTTL')
end

local function order_greater(a, b)
	local a1, a2 = unpack('>I4I4', a)
	local b1, b2 = unpack('>I4I4', b)
	return a1 > b1 or (a1 == b1 and a2 > b2)
end

local function judge(claim, t, busy)
	if not t then return NEW end
	if claim.kind == 2 then
		if order_greater(claim.order, t.order) then return NEW end
		return claim.order == t.order and not claim.equal_drops and NEW or STALE
	end
	if claim.kind == 0 and claim.check ~= 0 and t.check ~= 0 and claim.check ~= t.check then
		return CONFLICT
	end
	if busy and event_legs(t.ticket) then return BUSY end
	return DUPLICATE
end

local function claim_read(head, at)
	local c = {}
	local bits, key, aside
	c.kind, bits, c.window, c.check, key, c.order, aside = unpack('>BBI4I4c12c8c12', head, at)
	c.shadow, c.equal_drops, c.foreign = bits % 2 == 1, bits % 4 >= 2, bits >= 4
	c.key = P .. (c.kind == 2 and 'n' or 'c') .. key
	c.aside = P .. 'c' .. aside
	c.reserved = P .. 'q' .. c.kind .. key
	if c.kind ~= 2 then c.order = '' end
	return c, at + 42
end

local function is_reserved(claim, token)
	local by = known_get(claim.reserved)
	return by and by ~= token
end

-- Takes the claims and opens the tickets of an event. Returns its number.
local function open_event(a, taking, held)
	local legs = a.legs > 0 and a.legs or 1
	local ticket = ticket_next(legs)
	for i = 1, #taking do
		if taking[i].foreign then a.taken = a.taken + 2 ^ taking[i].index else claim_put(taking[i], ticket) end
	end
	if a.cross_shard then call('SET', P .. 'u' .. id_of(ticket), '', 'PX', 86400000) end
	if a.no_ticket then return ticket end
	local r = { event = ticket, due = 0, ends = 0, attempt = 0, used = 0, status = 0, last = 0,
		state = held and HELD or DUE, open = legs, legs = legs, sink = 0,
		order = '\0\0\0\0\0\0\0\0' }
	for i = 0, legs - 1 do
		local id = id_of(ticket + i)
		if a.legs > 0 then r.sink, r.order = unpack('>I4c8', a.head, a.legs_at + i * 12) end
		if r.sink == CALLER then call('SADD', P .. 'C', id) end
		opened[#opened + 1] = ticket + i
		opened[#opened + 1] = id
		waiting = true
		if held then
			call('ZADD', P .. 'h', ticket + i, id)
		elseif a.lease > 0 then
			r.state, r.attempt, r.used, r.ends = LEASED, 1, 1, now + a.lease
			call('ZADD', P .. 'l', r.ends, id)
			note(id, r, STARTED, 1, 0, 0, '')
		else
			add_due(pack('>I4', r.sink), ticket + i, id)
		end
		call('SET', P .. 't' .. id, i == 0 and leg_text(r) .. a.body or leg_text(r))
	end
	return ticket
end

local function admit_answer(a, verdict, matched, t)
	a.verdict, a.matched, a.ticket = verdict, matched, t.ticket
	if verdict == STALE then a.order = t.order end
end

-- The event is not new because of claim number i. A conflict that is kept aside takes a claim of
-- its own (claim.aside): the first event with that content is held, others are its duplicates.
local function admit_not_new(a, claim, verdict, i)
	a.verdict, a.would, a.would_matched, a.would_ticket = 0, 0, 0, 0
	local t = claim.stored
	if verdict == CONFLICT and a.on_conflict == 0 and not a.no_ticket then
		local aside = { kind = 0, key = claim.aside, window = claim.window, check = 0, order = '',
			foreign = claim.foreign, index = 4 + i }
		local stored
		if claim.foreign then stored = claim.aside_stored else stored = claim_get(aside.key) end
		if stored then
			verdict, t, claim = judge(aside, stored, a.busy), stored, aside
		else
			a.own = open_event(a, { aside }, true)
		end
	end
	admit_answer(a, verdict, i, t)
	if verdict == DUPLICATE or verdict == BUSY then
		if claim.foreign then
			a.seen_claim = 1 + (claim.index or i)
		else
			claim_seen(claim.key, t)
			a.seen = t.seen
			-- The first event's claims in other shards may not be taken yet.
			if a.cross_shard and call('EXISTS', P .. 'u' .. id_of(t.ticket)) == 1 then
				a.heals = 1
			end
		end
	end
end

local function admit_result(a)
	return pack('>BBBBI8I8I8I8I8c8BBB', a.verdict, a.matched, a.would, a.would_matched, a.ticket,
		a.own, a.would_ticket, a.seen, now, a.order, a.taken, a.seen_claim, a.heals)
end

-- False: another event has reserved one of the claims, or the event's own reservations are too
-- old.
local function claims_read(a, count, i)
	local at, token, ends = a.claims_at, '', nil
	a.claims = {}
	if a.cross_shard then
		token, ends = unpack('>c8I8', ARGV[i + 2])
		if now >= ends then return false end
	end
	for n = 1, count do
		local claim
		claim, at = claim_read(a.head, at)
		claim.index = n - 1
		a.claims[n] = claim
		if claim.foreign then
			claim.stored = claim_parse(ARGV[i + 1 + 2 * n])
			claim.aside_stored = claim_parse(ARGV[i + 2 + 2 * n])
		else
			if step > 1 and is_reserved(claim, token) then return false end
			claim.stored = claim_get(claim.key)
		end
	end
	return true
end

-- The claims that a new event takes, or nil if it is not new.
local function judge_claims(a, count)
	local taking = {}
	for i = 0, count - 1 do
		local claim = a.claims[i + 1]
		local t = claim.stored
		local verdict = judge(claim, t, a.busy)
		if verdict ~= NEW and claim.shadow then
			if a.would == 0 then a.would, a.would_matched, a.would_ticket = verdict, i, t.ticket end
		else
			if verdict == CONFLICT and a.on_conflict == 1 then
				if a.verdict == 0 then admit_answer(a, CONFLICT, i, t) end
				verdict = NEW
			end
			if verdict ~= NEW then
				admit_not_new(a, claim, verdict, i)
				return nil
			end
			taking[#taking + 1] = claim
		end
	end
	return taking
end

-- An event, from its head at `at`. Later fields hold what is decided.
local function admit_new(head, at)
	local a = { head = head, would = 0, would_matched = 0, would_ticket = 0,
		verdict = 0, matched = 0, ticket = 0, own = 0, seen = 0, order = '\0\0\0\0\0\0\0\0',
		taken = 0, seen_claim = 0, heals = 0 }
	local bits
	bits, a.on_conflict, a.count, a.legs, a.lease = unpack('>BBBBI4', head, at)
	a.no_ticket, a.busy, a.cross_shard = bits % 2 == 1, bits % 4 >= 2, bits >= 4
	a.claims_at = at + 8
	a.legs_at = a.claims_at + a.count * 42
	return a
end

local function admit(a, i)
	if full then return FULL end
	if not claims_read(a, a.count, i) then return RETRY end
	local taking = judge_claims(a, a.count)
	if taking then
		a.own = open_event(a, taking, false)
		if a.verdict == 0 then a.verdict, a.ticket = NEW, a.own end
	end
	return admit_result(a)
end

local ops = {}

-- A: admit.
function ops.A(head, i)
	local a = admit_new(head, 2)
	a.body = ARGV[i + 1]
	return admit(a, i)
end

-- P: reserve claims for an event whose home is another shard, all or none. The answer: when the
-- reservations end, then what is stored of each claim and of the claim of its conflict.
function ops.P(head)
	local token, lease, count = unpack('>c8I4B', head, 2)
	local out, claims, at = { pack('>I8', now + lease) }, {}, 15
	if full then return FULL end
	for n = 1, count do
		claims[n], at = claim_read(head, at)
		if is_reserved(claims[n], token) then return RETRY end
	end
	for n = 1, count do
		call('SET', claims[n].reserved, token, 'PX', lease)
		known[claims[n].reserved] = token
		out[#out + 1] = claim_text(claims[n].key)
		out[#out + 1] = claims[n].kind == 0 and claim_text(claims[n].aside) or ''
	end
	return out
end

-- Q: confirm reserved claims. For each: 0 free it, 1 take it, 2 take the claim of its conflict, 3
-- and 4 count either of them as seen again. The answer: how often that one was seen.
function ops.Q(head)
	local token, ticket, count = unpack('>c8I8B', head, 2)
	local at, seen = 19, 0
	for n = 1, count do
		local act = unpack('B', head, at)
		local claim
		claim, at = claim_read(head, at + 1)
		local ours = not is_reserved(claim, token)
		if act == 2 or act == 4 then
			claim = { key = claim.aside, window = claim.window, check = 0, order = '',
				reserved = claim.reserved }
		end
		local t = claim_get(claim.key)
		if act == 1 or act == 2 then
			claim.stored = t
			-- If the reservation expired, another event may have taken the claim: it keeps it.
			local by = known_get(claim.reserved)
			if ours and (by or not t) then claim_put(claim, ticket) end
		elseif act >= 3 and t then
			claim_seen(claim.key, t)
			seen = t.seen
		end
		if ours then
			call('DEL', claim.reserved)
			known[claim.reserved] = false
		end
	end
	return seen
end

-- V: all claims of an event in other shards are taken.
function ops.V(head)
	call('DEL', P .. 'u' .. sub(head, 2))
	return 0
end

-- A leased ticket, by its number and attempt.
local function leased(id, attempt)
	local r = leg_get(id)
	if r and r.state == LEASED and r.attempt == attempt then return r end
	return nil
end

local function cell_put(key, value, expiry)
	if expiry > 0 and expiry <= now then
		call('DEL', key)
	elseif expiry == 0 then
		call('SET', key, value)
	else
		set_until(key, value, expiry)
	end
end

-- The new expiry of a cell. `how`: ms is 0 a time to live, 1 an expiry; 2 keep the old expiry.
-- `wall` and the second of tolerance: as in store_cell_expiry().
local function cell_expiry(how, ms, old, wall)
	if how == 2 then return old end
	local expiry = (how == 1 or ms == 0) and ms or now + ms
	if wall > 0 and expiry > wall and now - wall > 1000 then expiry = expiry + now - wall end
	return expiry < EXPIRY_MAX and expiry or EXPIRY_MAX
end

local function cell_get(key)
	local text = call('GET', key)
	if not text then return nil, 0 end
	local expiry = unpack('>I8', text)
	if expiry > 0 and expiry <= now then return nil, 0 end
	return text, expiry
end

-- S: settle. The argument behind it, if there is one: the cell of the answer.
function ops.S(head, i)
	local id, attempt, outcome, bits, status, due = unpack('>c8I4BBI2I8', head, 2)
	local forget, answer = bits % 2 == 1, bits % 4 >= 2
	local r = leased(id, attempt)
	if not r then return FENCED end
	local closes = outcome == 1 or (outcome == 2 and forget)
	if full and answer then return FULL end
	if closes then
		leg_close(id, r)
		if outcome == 2 then drop_note(r.event) end
	elseif outcome == 4 then
		r.due, r.used, r.ends = due, attempt, 0
		leg_move(id, unpack('>I8', id), r, DUE)
		leg_put(id, r)
	else
		note(id, r, outcome == 2 and 4 or 5, attempt, status, 0, sub(head, 26))
		r.due, r.used, r.ends = now, attempt, 0
		leg_move(id, 0, r, outcome == 2 and DEAD or PARKED)
		leg_put(id, r)
	end
	if answer then
		local key, how, ms = unpack('>c12BI8', ARGV[i + 1])
		local _, old = cell_get(P .. 'k' .. key)
		local expiry = cell_expiry(how, ms, old, 0)
		cell_put(P .. 'k' .. key, pack('>I8', expiry) .. sub(ARGV[i + 1], 22), expiry)
	end
	return 0
end

-- N: note.
function ops.N(head)
	local id, attempt, mark, status, due = unpack('>c8I4BI2I8', head, 2)
	local r = leased(id, attempt)
	if not r then return FENCED end
	note(id, r, mark, attempt, status, mark == STARTED and 0 or due, sub(head, 25))
	r.used = attempt
	if mark ~= STARTED then r.attempt, r.due = next_attempt(attempt), due end
	leg_put(id, r)
	return 0
end

local function has_bit(mask, bit) return floor(mask / 2 ^ bit) % 2 == 1 end

local function release(id, r, drop)
	if drop then
		leg_close(id, r)
		drop_note(r.event)
		return 0
	end
	if full then return FULL end
	if r.state == PARKED or r.state == DEAD then note(id, r, RELEASED, r.attempt, 0, 0, '') end
	r.due, r.used = 0, r.attempt
	leg_move(id, unpack('>I8', id), r, DUE)
	leg_put(id, r)
	return 0
end

-- R: release. The bits from the third on are the states that it applies to.
function ops.R(head)
	local id, bits = unpack('>c8B', head, 2)
	local drop, whole = bits % 2 == 1, bits % 4 >= 2
	sync()
	local r, closed = leg_get(id)
	if not whole then
		return r and has_bit(bits, r.state + 1) and release(id, r, drop) or FENCED
	end
	local event = (r or closed) and (r or closed).event or unpack('>I8', id)
	local result = FENCED
	for n = 0, 15 do
		local leg_id = id_of(event + n)
		local leg = leg_get(leg_id)
		if leg and leg.event == event and has_bit(bits, leg.state + 1) then
			result = release(leg_id, leg, drop)
		end
	end
	return result
end

-- E: renew. Works without room too: a lease that ends while its holder delivers lets a second
-- gateway deliver the event.
local function lease_renew(id, r, lease)
	allow()
	r.ends = lease > 0 and now + lease or 0
	call('ZADD', P .. 'l', r.ends > 0 and r.ends or FOREVER, id)
	leg_put(id, r)
end

function ops.E(head)
	local id, attempt, lease, until_ms = unpack('>c8I4I8I8', head, 2)
	local r = leased(id, attempt)
	if not r or (until_ms > 0 and until_ms <= now) then return FENCED end
	if until_ms > 0 and (lease == 0 or until_ms - now < lease) then lease = until_ms - now end
	lease_renew(id, r, lease)
	return 0
end

-- Gives a lease back. Its attempt number was not used.
local function give_back(id, r)
	r.attempt, r.ends = r.used, 0
	leg_move(id, unpack('>I8', id), r, DUE)
	leg_put(id, r)
end

-- B: a gateway that stops gives a lease back.
function ops.B(head)
	local id, attempt = unpack('>c8I4', head, 2)
	local r = leased(id, attempt)
	if r then give_back(id, r) end
	return 0
end

-- Gives back the leases of a batch whose answer was lost and which is not sent again.
local function give_back_takes(text)
	local _, lost = spread(cmsgpack.unpack(text))
	for n = 1, #lost do
		for at = 1, #lost[n], 10 do
			local id, attempt = unpack('>c8I2', lost[n], at)
			local r = leased(id, attempt)
			if r then give_back(id, r) end
		end
	end
end

-- X: remove dead letters that are too old.
function ops.X(head)
	local before = unpack('>I8', head, 2)
	if before > now then return 0 end
	local old = call('ZRANGEBYSCORE', P .. 'x', '-inf', now - before, 'LIMIT', 0, 100)
	for n = 1, #old do
		local r = leg_get(old[n])
		if r then
			drop_note(r.event)
			leg_close(old[n], r)
		end
	end
	return #old
end

local function lease_begin(id, r, lease)
	r.attempt = next_attempt(r.attempt)
	r.state, r.ends = LEASED, lease > 0 and now + lease or 0
end

-- What is stored of a ticket's event, or its first bytes up to `most`.
local function event_text(id, r, most)
	local key = P .. 't' .. (r.legs == 1 and id or id_of(r.event))
	if most then return call('GETRANGE', key, 0, most) end
	return call('GET', key)
end

-- T: take, by sink.
function ops.T(head)
	local sink, items, bytes, lease, bare = unpack('>c4I4I4I8B', head, 2)
	local out, used, taken, leases, attempts = { pack('>I8', now) }, 0, {}, {}, {}
	sync()
	while #taken < items do
		local from = #taken
		local ids = call('ZRANGE', P .. 'd' .. sink, from, from + 63)
		for n = 1, #ids do
			local id = ids[n]
			local r, text
			if bare == 0 then
				text = call('GET', P .. 't' .. id)
				r = leg_of(text)
				if r.legs > 1 then text = event_text(id, r) end
			else
				r, text = leg_get(id), ''
			end
			if #taken == items or (#taken > 0 and used + #text + 72 > bytes) then
				items = #taken
				break
			end
			used = used + #text + 72
			allow()
			lease_begin(id, r, lease)
			local new = leg_text(r)
			call('SETRANGE', P .. 't' .. id, 0, new)
			taken[#taken + 1] = id
			attempts[#taken] = pack('>c8I2', id, r.attempt)
			leases[#leases + 1] = r.ends > 0 and r.ends or FOREVER
			leases[#leases + 1] = id
			out[#out + 1] = id .. new
			out[#out + 1] = text
		end
		if #ids < 64 then break end
	end
	call_in_parts(taken, 'ZREM', P .. 'd' .. sink)
	call_in_parts(leases, 'ZADD', P .. 'l')
	takes[#takes + 1] = concat(attempts)
	return out
end

-- The tickets that a take leased in the call that this one repeats, if they are still leased.
local function take_again(head, attempts)
	local _, _, _, lease, bare = unpack('>c4I4I4I8B', head, 2)
	local out = { pack('>I8', now) }
	for at = 1, #attempts, 10 do
		local id, attempt = unpack('>c8I2', attempts, at)
		local r = leased(id, attempt)
		if r then
			lease_renew(id, r, lease)
			out[#out + 1] = id .. leg_text(r)
			out[#out + 1] = bare == 0 and event_text(id, r) or ''
		end
	end
	return out
end

-- U: take one ticket.
function ops.U(head)
	local id, sink, lease, bare = unpack('>c8I4I8B', head, 2)
	local out = { pack('>I8', now) }
	local r = leg_get(id)
	if full then return FULL end
	if r and r.state == DUE and r.sink == sink and r.due <= now then
		sync()
		call('ZREM', set_of(r), id)
		lease_begin(id, r, lease)
		r.used = r.attempt
		call('ZADD', P .. 'l', r.ends > 0 and r.ends or FOREVER, id)
		out[2] = id .. leg_text(r) -- with the note of the attempt before
		note(id, r, STARTED, r.attempt, 0, 0, '')
		leg_put(id, r)
		out[3] = bare == 0 and event_text(id, r) or ''
	end
	return out
end

-- L: lookup.
function ops.L(head)
	local kind, key = unpack('>Bc12', head, 2)
	local t = claim_get(P .. (kind == 2 and 'n' or 'c') .. key)
	if not t then return '' end
	local pending = event_legs(t.ticket)
	local first = leg_get(id_of(t.ticket))
	local held = first ~= nil and first.state == HELD
	return pack('>BBI4I4I8', pending and 1 or 0, held and 1 or 0, t.check, t.seen, t.ticket) .. t.order
end

-- W: the outcome of an event so far.
function ops.W(head)
	local id = sub(head, 2)
	local pending, parked, dead = event_legs(unpack('>I8', id))
	local dropped = call('EXISTS', P .. 'D' .. id)
	return (pending and 1 or 0) + (parked and 2 or 0) + (dead and 4 or 0) + dropped * 8
end

-- G: read.
function ops.G(head)
	local id, history = unpack('>c8B', head, 2)
	local r = leg_get(id)
	if not r then return NOENT end
	local out = { id .. leg_text(r), event_text(id, r) }
	if history == 1 then
		local notes = call('LRANGE', P .. 'N' .. id, 0, -1)
		for n = 1, #notes do out[#out + 1] = notes[n] end
	end
	return out
end

-- F: scan. The answer: the number to continue with (0: this is the end), then the tickets.
function ops.F(head)
	local from, to, states, sink, items, bytes, payload = unpack('>I8I8I4I4I4I4B', head, 2)
	local most = payload == 0 and RECORD_LEN + 5 + 64 + 4096 or nil
	local out, used, count = { '' }, 0, 0
	local following = 0
	sync()
	local ids = call('ZRANGEBYSCORE', P .. 'o', from, to, 'LIMIT', 0, 256)
	for n = 1, #ids do
		local id = ids[n]
		local r = leg_get(id)
		if r and (states == 0 or has_bit(states, r.state)) and (sink == 0 or sink == r.sink) then
			local text = event_text(id, r, most)
			if count == items or (count > 0 and used + #text + 72 > bytes) then
				following = unpack('>I8', id)
				break
			end
			count, used = count + 1, used + #text + 72
			out[#out + 1] = id .. leg_text(r)
			out[#out + 1] = text
		end
	end
	if following == 0 and #ids == 256 then following = unpack('>I8', ids[256]) + 1 end
	out[1] = pack('>I8', following)
	return out
end

-- H: events with a held leg, newest first.
function ops.H(head)
	local before, items = unpack('>I8I4', head, 2)
	local out, count = {}, 0
	while count < items do
		local ids = call('ZREVRANGEBYSCORE', P .. 'h', '(' .. format('%.0f', before), '-inf',
			'LIMIT', 0, 64)
		for n = 1, #ids do
			local ticket = unpack('>I8', ids[n])
			if ticket < before and count < items then
				before = leg_get(ids[n]).event
				count = count + 1
				out[count] = id_of(before)
			end
		end
		if #ids < 64 then break end
	end
	return concat(out)
end

-- Does a condition of enum store_when allow this new expiry? Never (0) is the latest.
local function cell_moves(when, old, new)
	local earlier = new ~= 0 and (old == 0 or new < old)
	if when == 3 then return old == 0 end
	if when == 4 then return old ~= 0 end
	if when == 5 then return old ~= 0 and (new == 0 or new > old) end
	if when == 6 then return earlier end
	if when == 7 then return old ~= 0 and earlier end
	return true
end

-- C: a cell. The argument behind it: what a put stores.
function ops.C(head, i)
	local act, when, want, how, ms, key, wall = unpack('>BBBBI8c12I8', head, 2)
	key = P .. 'k' .. key
	local text, expiry = cell_get(key)
	local changed = 0
	if act == 2 then
		if full then return FULL end
		if when == 0 or (when == 1) == (text == nil) then
			local new = cell_expiry(how, ms, expiry, wall)
			cell_put(key, pack('>I8', new) .. ARGV[i + 1], new)
			changed = 1
		end
	elseif act == 3 and text then
		if full then return FULL end
		local new = cell_expiry(how, ms, expiry, wall)
		if cell_moves(when, expiry, new) then
			cell_put(key, pack('>I8', new) .. sub(text, 9), new)
			changed = 1
		end
	elseif act == 4 and text then
		call('DEL', key)
		changed = 1
	end
	local out = { pack('>BBI8I8', text and 1 or 0, changed, expiry, now) }
	if text and want == 1 then out[2] = text end
	return out
end

-- K: names of cells. The answer: the cursor to continue with, then the names.
function ops.K(head)
	local items, cursor = unpack('>I4', head, 2), sub(head, 6)
	local found = call('SCAN', cursor, 'MATCH', P .. 'k*', 'COUNT', items)
	local out = { found[1] }
	for n = 1, #found[2] do
		local text = call('GETRANGE', found[2][n], 0, 12 + 4096)
		local expiry, len = unpack('>I8I4', text)
		if expiry == 0 or expiry > now then out[#out + 1] = sub(text, 13, 12 + len) end
	end
	return out
end

end_leases()
if unheard then give_back_takes(unheard) end

return { ops = ops, admit_new = admit_new, admit = admit, take_again = take_again, sync = sync }

end

-- How many arguments follow the head of an operation.
local function arguments_of(opcode, head)
	if opcode == 'M' then return (unpack('>I2', head, 4)) end
	if opcode == 'A' then
		local bits, _, claims = byte(head, 2, 4)
		return bits >= 4 and 2 + 2 * claims or 1
	end
	if opcode == 'C' or (opcode == 'S' and byte(head, 15) % 4 >= 2) then return 1 end
	return 0
end

local DONE_ONCE = 'ABCEMNPQRSUVX'
local out, results = {}, {}
local i = 3
if unheard then rest_of_script() end
while i <= #ARGV do
	local head = ARGV[i]
	local opcode = sub(head, 1, 1)
	local once = string.find(DONE_ONCE, opcode, 1, true)
	local result
	if saved and once then
		saved_at = saved_at + 1
		result = saved[saved_at]
	elseif saved and opcode == 'T' then
		takes[#takes + 1] = ''
		result = rest_of_script().take_again(head, saved_takes[#takes])
	elseif opcode == 'M' then
		result = admit_many(head, i)
	else
		result = rest_of_script().ops[opcode](head, i)
	end
	if once then results[#results + 1] = result end
	out[#out + 1] = result
	i = i + 1 + arguments_of(opcode, head)
end
if rest then rest.sync() end
local last_text = format('%.0f', last)
if last_text ~= at_start[2] and writes and not full then
	call('HSET', KEYS[1], 'layout', LAYOUT, 'last', last_text)
end
if saved then
	call('PEXPIRE', P .. 'r' .. ARGV[2], 3600000)
elseif (writes or concat(takes) ~= '') and not full then
	call('SET', P .. 'r' .. ARGV[2], pack('>I8', batch) .. cmsgpack.pack({ results, takes }),
		'PX', 3600000)
end
out[#out + 1] = (full and '\1' or writes and '\0' or '\2')
	.. (counts and pack('>I8I8I8I8I8I8I8I8', last, call('ZCARD', P .. 'o'), call('ZCARD', P .. 'l'),
	call('ZCARD', P .. 'h'), call('ZCARD', P .. 'p'), call('ZCARD', P .. 'x'), call('DBSIZE'),
	call('SCARD', P .. 'C')) or '')
return out
