"""What does Redis do in one step when consumers share an inbox?

KEYS of both scripts: 1 the named numbers (hash); 2-4 the marks of window, sequence and key (hashes,
name to "at_us position number"); 5-7 their order (sorted sets, by position); 8 the parked messages
(hash); then for each place who holds it (a token that expires); CONFIRM has one more, by which it
knows that it has been done.
"""

from lns.store.redis_wire import Script

# ARGV: token, lease (ms), JSON {"places": [[number of the hash, name]], "groups": [[number of the
# place]]}, number of messages. A message gets all of its places or none. Reply: by message whether
# it is reserved, by place its mark or "", the named numbers, the first position that is ours.
RESERVE = Script("""
local asked = cjson.decode(ARGV[3])
local free, marks, granted = {}, {}, {}
for number, place in ipairs(asked.places) do
    local holder = redis.call('GET', KEYS[8 + number])
    free[number] = not holder or holder == ARGV[1]
    marks[number] = redis.call('HGET', KEYS[place[1]], place[2]) or ''
end
for number, group in ipairs(asked.groups) do
    local all = true
    for _, place in ipairs(group) do all = all and free[place] end
    if all then
        for _, place in ipairs(group) do
            redis.call('SET', KEYS[8 + place], ARGV[1], 'PX', ARGV[2])
        end
    end
    granted[number] = all and 1 or 0
end
local position = redis.call('HINCRBY', KEYS[1], 'position', ARGV[4]) - ARGV[4]
return {granted, marks, redis.call('HGETALL', KEYS[1]), position}
""")

# ARGV: token, JSON {"marks": [[number of the place, number of the hash, name, mark found, mark]],
# "numbers": [[name, what to add]], "forget": [[number of the hash, before (us), at most]],
# "unparked": [identity], "parked": [[identity, message]]}, most marks of a table. A mark that
# somebody else has made since stays: the lease was over, and the effect may have happened there
# too. Done once, however often it is said.
CONFIRM = Script("""
if not redis.call('SET', KEYS[#KEYS], '1', 'NX', 'PX', 86400000) then return 0 end
local said, overruns, outlasted = cjson.decode(ARGV[2]), 0, {}
for _, change in ipairs(said.marks) do
    local marks, name, mark = KEYS[change[2]], change[3], change[5]
    local position = string.match(mark, '^%S+ (%S+)')
    if (redis.call('HGET', marks, name) or '') == change[4] then
        redis.call('HSET', marks, name, mark)
        redis.call('ZADD', KEYS[change[2] + 3], position, name)
    elseif not outlasted[position] then
        outlasted[position] = true
        overruns = overruns + 1
    end
end
for number = 9, #KEYS - 1 do
    if redis.call('GET', KEYS[number]) == ARGV[1] then redis.call('DEL', KEYS[number]) end
end
for _, change in ipairs(said.numbers) do redis.call('HINCRBY', KEYS[1], change[1], change[2]) end
for _, identity in ipairs(said.unparked) do redis.call('HDEL', KEYS[8], identity) end
for _, message in ipairs(said.parked) do redis.call('HSET', KEYS[8], message[1], message[2]) end
for _, table in ipairs(said.forget) do
    local marks, order = KEYS[table[1]], KEYS[table[1] + 3]
    for _, name in ipairs(redis.call('ZRANGE', order, 0, table[3] - 1)) do
        local at_us = string.match(redis.call('HGET', marks, name), '^%S+')
        if tonumber(at_us) >= table[2] then break end
        redis.call('HDEL', marks, name)
        redis.call('ZREM', order, name)
    end
end
local evicted = 0
for number = 2, 4 do
    while redis.call('ZCARD', KEYS[number + 3]) > tonumber(ARGV[3]) do
        redis.call('HDEL', KEYS[number], redis.call('ZPOPMIN', KEYS[number + 3])[1])
        evicted = evicted + 1
    end
end
if evicted > 0 then redis.call('HINCRBY', KEYS[1], 'evicted', evicted) end
if overruns > 0 then redis.call('HINCRBY', KEYS[1], 'overruns', overruns) end
return 1
""")
