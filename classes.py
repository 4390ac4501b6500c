import re,subprocess,sys,collections
TOP=['common','server','worker','deploy','library','include','tests']
files=subprocess.run(['git','ls-files']+TOP,capture_output=True,text=True).stdout.split()
files=[f for f in files if re.search(r'\.(h|cc|cu)$',f)]
types=collections.defaultdict(list) # (ns,name)->[(file,lines)]
methods=collections.defaultdict(set)
for f in files:
    ls=open(f).read().split('\n')
    ns=[];unn=False
    i=0
    stack=[]
    while i<len(ls):
        l=ls[i]
        m=re.match(r'namespace( [\w:]+)? \{',l)
        if m and l.rstrip().endswith('{'): stack.append((m.group(1) or ' <anon>').strip())
        if re.match(r'\}  // namespace',l) and stack: stack.pop()
        m=re.match(r'(?:class|struct|enum class|enum|union)(?: ABSL_\w+(?:\(.*?\))?| alignas\(.*?\))? (\w+)(?: final)?[^;(]*$|(?:class|struct|enum class|enum)(?: \w+\([^)]*\))? (\w+).*\{',l)
        if m and not l.rstrip().endswith(';') or (m and '{' in l):
            name=m.group(1) or m.group(2)
            j=i
            if not l.rstrip().endswith('};'):
                while not re.match(r'\};',ls[j]): j+=1
            body=ls[i:j+1]
            types[('::'.join(stack),name)].append((f,j-i+1,body))
            i=j
        i+=1
dups=[(k,[x[0] for x in v]) for k,v in types.items() if len(v)>1 and '<anon>' not in k[0]]
if __name__=='__main__':
    print('dups');
    for d in dups: print(d)
